package foreign

import (
	"testing"
	"testing/fstest"
)

func TestMayBeConfined(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	root := fstest.MapFS{}
	is := func(what string, want bool) {
		t.Helper()
		if got := MayBeConfined(root, "chronyd", "/run/lab/state/chrony"); got != want {
			t.Errorf("%s: %t", what, got)
		}
	}
	is("no AppArmor", false)
	root["sys/module/apparmor/parameters/enabled"] = file("Y\n")
	is("no profile", false)
	root["etc/apparmor.d/usr.sbin.chronyd"] = file("/usr/sbin/chronyd { }\n")
	is("a profile", true)
	root["etc/apparmor.d/local/usr.sbin.chronyd"] = file("/var/lib/weir/chrony/** rwk,\n")
	is("a profile that says something of another directory", true)
	root["etc/apparmor.d/local/usr.sbin.chronyd"] = file("/run/lab/state/chrony/** rwk,\n")
	is("a profile that says something of it", false)
	delete(root, "etc/apparmor.d/local/usr.sbin.chronyd")
	root["etc/apparmor.d/disable/usr.sbin.chronyd"] = file("")
	is("a profile that is off", false)
	root["sys/module/apparmor/parameters/enabled"] = file("N\n")
	is("AppArmor is off", false)
}
