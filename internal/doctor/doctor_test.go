package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

// links is a machine's file system with symbolic links, as /proc has.
type links struct {
	fstest.MapFS
	to map[string]string
}

func (l links) ReadLink(name string) (string, error) {
	if to, ok := l.to[name]; ok {
		return to, nil
	}
	return "", fs.ErrPermission
}

func (l links) Lstat(name string) (fs.FileInfo, error) { return l.Stat(name) }

// well is a machine on which nothing is wrong.
func well() Machine {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return Machine{
		Root: links{fstest.MapFS{
			"proc/1/comm":                                 file("systemd\n"),
			"sys/class/rtc/rtc0/x":                        file(""),
			"sys/class/net/eth0/device/x":                 file(""),
			"sys/class/net/eth0/queues/rx-0/rps_cpus":     file("f\n"),
			"proc/sys/net/netfilter/nf_conntrack_max":     file("262144\n"),
			"proc/sys/net/netfilter/nf_conntrack_count":   file("12\n"),
			"sys/module/nf_conntrack/parameters/hashsize": file("65536\n"),
			"lib/modules/6.1.0-18-amd64/modules.dep":      file("kernel/net/8021q/8021q.ko: kernel/x.ko\n"),
		}, map[string]string{"proc/self/ns/net": "net:[1]", "proc/1/ns/net": "net:[1]"}},
		StateDir: "var/lib/weir", NFT: "nftables v1.0.6 (Lester Gooch #5)\n", Kernel: "6.1.0-18-amd64", CPUs: 4,
		Now: time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC), Built: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Synced: true,
		Disk:  Disk{Free: 1 << 30},
		Run:   func(string, ...string) (string, error) { return "", nil },
		Write: func(string, string) error { return nil },
		Load:  func(string) error { return nil },
	}
}

func TestWell(t *testing.T) {
	for _, f := range Look(well()) {
		if f.State != OK {
			t.Errorf("%+v", f)
		}
	}
}

// Each ailment is found, and nothing else.
func TestAilments(t *testing.T) {
	failed := exec.Command("sh", "-c", "exit 1").Run()
	put := func(m *Machine, name, text string) {
		m.Root.(links).MapFS[name] = &fstest.MapFile{Data: []byte(text)}
	}
	process := func(m *Machine, pid, name, ns, args string) {
		put(m, "proc/"+pid+"/comm", name+"\n")
		put(m, "proc/"+pid+"/cmdline", args)
		if ns != "" {
			m.Root.(links).to["proc/"+pid+"/ns/net"] = ns
		}
	}
	numbered := func(m *Machine, name string, inode uint64) {
		m.Root.(links).MapFS[name] = &fstest.MapFile{Sys: &syscall.Stat_t{Ino: inode}}
	}
	running := func(m *Machine) { // a weir with a child, as it has
		process(m, "5", "weir", "net:[1]", "/usr/bin/weir\x00run\x00gateway.hcl")
		put(m, "proc/5/status", "Name:\tweir\nPPid:\t1\n")
		process(m, "6", "exe", "net:[1]", "weir\x00worker")
		put(m, "proc/6/status", "Name:\texe\nPPid:\t5\n")
	}
	for _, c := range []struct {
		name string
		do   func(*Machine)
		want string // "state check" of each that is not ok
	}{
		{"old kernel", func(m *Machine) { m.Kernel = "5.10.0-8" }, "wrong kernel"},
		{"no nft", func(m *Machine) { m.NFT = "" }, "wrong nft"},
		{"old nft", func(m *Machine) { m.NFT = "nftables v0.9.8 (E.D.S.)" }, "wrong nft"},
		{"nft 1.0.4", func(m *Machine) { m.NFT = "nftables v1.0.4 (Lester Gooch #3)" }, "wrong nft"},
		{"nft 1.1.0", func(m *Machine) { m.NFT = "nftables v1.1.0 (Commodore Bullmoose)" }, ""},
		{"kernel without nat", func(m *Machine) {
			m.Run = func(_ string, a ...string) (string, error) {
				if a[0] == "nft" {
					return "Error: Could not process rule: No such file or directory", failed
				}
				return "", nil
			}
		}, "wrong nft"},
		{"no namespaces for this user", func(m *Machine) {
			m.Run = func(string, ...string) (string, error) { return "", errors.New("fork/exec: operation not permitted") }
		}, "unseen nft, unseen veth, unseen bridge, unseen vlan"},
		{"a module that is to be loaded", func(m *Machine) {
			m.Run = func(_ string, a ...string) (string, error) {
				if strings.Contains(a[len(a)-1], "vlan") {
					return "Error: Unknown device type.", failed
				}
				return "", nil
			}
		}, "note vlan, safe"},
		{"dnsmasq", func(m *Machine) { process(m, "7", "dnsmasq", "net:[1]", "/usr/sbin/dnsmasq") }, "wrong service dnsmasq"},
		{"dnsmasq of a container", func(m *Machine) { process(m, "7", "dnsmasq", "net:[9]", "/usr/sbin/dnsmasq") }, ""},
		{"dnsmasq, as an ordinary user", func(m *Machine) {
			process(m, "7", "dnsmasq", "", "/usr/sbin/dnsmasq")
			numbered(m, "proc/self/net/dev", 1)
			numbered(m, "proc/7/net/dev", 1)
		}, "wrong service dnsmasq"},
		{"dnsmasq of a container, as an ordinary user", func(m *Machine) {
			process(m, "7", "dnsmasq", "", "/usr/sbin/dnsmasq")
			numbered(m, "proc/self/net/dev", 1)
			numbered(m, "proc/7/net/dev", 9)
		}, ""},
		{"dnsmasq that is somewhere", func(m *Machine) { process(m, "7", "dnsmasq", "", "/usr/sbin/dnsmasq") }, "unseen service dnsmasq"},
		{"dnsmasq that is somewhere, and one here", func(m *Machine) {
			process(m, "6", "dnsmasq", "", "/usr/sbin/dnsmasq")
			process(m, "7", "dnsmasq", "net:[1]", "/usr/sbin/dnsmasq")
		}, "wrong service dnsmasq"},
		{"named and chronyd of a weir that keeps its files elsewhere", func(m *Machine) {
			running(m)
			process(m, "7", "named", "net:[1]", "named\x00-c\x00/tmp/x/named/named.conf")
			put(m, "proc/7/status", "Name:\tnamed\nPPid:\t6\n")
			process(m, "8", "chronyd", "", "chronyd\x00-f\x00/tmp/x/chrony/chrony.conf") // as an ordinary user
			put(m, "proc/8/status", "Name:\tchronyd\nPPid:\t6\n")
		}, ""},
		{"named that a shell started beside weir", func(m *Machine) {
			running(m)
			process(m, "7", "named", "net:[1]", "named\x00-u\x00bind")
			put(m, "proc/7/status", "Name:\tnamed\nPPid:\t1\n")
		}, "note service named"},
		{"weir's own named", func(m *Machine) { process(m, "7", "named", "net:[1]", "named\x00-c\x00/var/lib/weir/named/named.conf") }, ""},
		{"another named", func(m *Machine) { process(m, "7", "named", "net:[1]", "named\x00-u\x00bind") }, "note service named"},
		{"a name cut off", func(m *Machine) { process(m, "7", "systemd-resolve", "net:[1]", "/lib/systemd/systemd-resolved") }, "note service systemd-resolved"},
		{"docker", func(m *Machine) { process(m, "7", "dockerd", "net:[1]", "dockerd") }, "wrong service dockerd"},
		{"processes that are hidden", func(m *Machine) { delete(m.Root.(links).MapFS, "proc/1/comm") }, "unseen services"},
		{"ufw", func(m *Machine) { put(m, "etc/ufw/ufw.conf", "# x\nENABLED=yes\n") }, "wrong service ufw"},
		{"ufw that is off", func(m *Machine) { put(m, "etc/ufw/ufw.conf", "ENABLED=no\n") }, ""},
		{"1970", func(m *Machine) { m.Now = time.Unix(60, 0) }, "wrong clock"},
		{"nobody keeps the clock", func(m *Machine) { m.Synced = false }, "note clock"},
		{"no clock chip", func(m *Machine) { delete(m.Root.(links).MapFS, "sys/class/rtc/rtc0/x") }, "note clock chip"},
		{"full", func(m *Machine) { m.Disk.Free = 1 << 20 }, "wrong disk"},
		{"nearly full", func(m *Machine) { m.Disk.Free = 30 << 20 }, "note disk"},
		{"read-only", func(m *Machine) { m.Disk.ReadOnly = true }, "wrong disk"},
		{"in memory", func(m *Machine) { m.Disk.Memory = true }, "wrong disk"},
		{"one queue", func(m *Machine) { put(m, "sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n") }, "note queues eth0, safe"},
		{"several queues", func(m *Machine) {
			put(m, "sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
			put(m, "sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n")
		}, ""},
		{"few buckets", func(m *Machine) { put(m, "sys/module/nf_conntrack/parameters/hashsize", "1024\n") }, "note conntrack, safe"},
		{"conntrack full", func(m *Machine) { put(m, "proc/sys/net/netfilter/nf_conntrack_count", "262000\n") }, "wrong conntrack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := well()
			c.do(&m)
			var got []string
			found := Look(m)
			for _, f := range found {
				if f.State == OK {
					continue
				}
				if f.Do == "" || f.Seen == "" {
					t.Errorf("it does not say what to do: %+v", f)
				}
				got = append(got, f.State+" "+f.Check)
				if f.Safe {
					got = append(got, "safe")
				}
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("found %q, want %q", s, c.want)
			}
			if bad := Bad(found); bad != strings.Contains(c.want, "wrong") {
				t.Errorf("bad: %v", bad)
			}
		})
	}
}

// The advice about a clock that nobody keeps is not to do what is done.
func TestClockAdvice(t *testing.T) {
	for _, c := range []struct{ name, installed, ns, args, parent, want string }{
		{"no chrony", "", "", "", "", "install chrony: weir runs it"},
		{"chrony, and no weir", "usr/sbin/chronyd", "", "", "", "nothing: chrony is installed, and weir runs it"},
		{"run by weir", "usr/sbin/chronyd", "net:[1]", "chronyd\x00-f\x00/x/chrony.conf", "weir\x00run\x00a.hcl", "weir status shows which servers answer, and whether the clock is set"},
		{"run by a rehearsal's weir", "usr/sbin/chronyd", "net:[9]", "chronyd\x00-x", "weir\x00run\x00a.hcl", "nothing: chrony is installed, and weir runs it"},
		{"run by others in a network that is not to be seen", "usr/sbin/chronyd", "", "chronyd\x00-F\x001", "/sbin/init", "try it as root"},
		{"run by others", "usr/sbin/chronyd", "net:[1]", "chronyd\x00-F\x001", "/sbin/init", "chronyc sources shows which servers answer"},
	} {
		m := well()
		m.Synced = false
		root := m.Root.(links).MapFS
		if c.installed != "" {
			root[c.installed] = &fstest.MapFile{Mode: 0o755}
		}
		if c.args != "" {
			m.Root.(links).to["proc/8/ns/net"] = c.ns
			root["proc/8/comm"] = &fstest.MapFile{Data: []byte("chronyd\n")}
			root["proc/8/cmdline"] = &fstest.MapFile{Data: []byte(c.args)}
			root["proc/8/status"] = &fstest.MapFile{Data: []byte("Name:\tchronyd\nPPid:\t5\n")}
			root["proc/5/cmdline"] = &fstest.MapFile{Data: []byte(c.parent)}
		}
		if found := clocks(m); len(found) != 1 || found[0].Do != c.want {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}

// What is safe is done, and what fails is told.
func TestFix(t *testing.T) {
	m := well()
	m.Root.(links).MapFS["sys/module/nf_conntrack/parameters/hashsize"].Data = []byte("1024\n")
	m.Root.(links).MapFS["sys/class/net/eth0/queues/rx-0/rps_cpus"].Data = []byte("00\n")
	var did []string
	m.Write = func(path, text string) error {
		did = append(did, path+"="+text)
		if strings.Contains(path, "hashsize") {
			return errors.New("no")
		}
		return nil
	}
	found := Look(m)
	Fix(found)
	want := "[sys/class/net/eth0/queues/rx-0/rps_cpus=f sys/module/nf_conntrack/parameters/hashsize=65536]"
	if got := fmt.Sprint(did); got != want {
		t.Errorf("did %s, want %s", got, want)
	}
	for _, f := range found {
		switch f.Check {
		case "conntrack":
			if f.Fixed || f.Error != "no" {
				t.Errorf("%+v", f)
			}
		case "queues eth0":
			if !f.Fixed {
				t.Errorf("%+v", f)
			}
		}
	}
}

// This machine can be looked at, whoever looks: the kernel takes the ruleset that stands
// for weir's.
func TestThisMachine(t *testing.T) {
	found := Look(This(context.Background(), "/var/lib/weir", time.Unix(0, 0)))
	for _, f := range found {
		t.Logf("%s %s: %s; %s", f.State, f.Check, f.Seen, f.Do)
		if f.Check == "nft" && f.State == Wrong {
			t.Errorf("%+v", f)
		}
	}
}
