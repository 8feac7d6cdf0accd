package netnstest_test

import (
	"os"
	"testing"

	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

func TestAloneHasItsOwnRunAndNamespace(t *testing.T) {
	netnstest.Need(t)
	outside, err := os.Readlink(netns.Path(""))
	if err != nil {
		t.Fatal(err)
	}
	// The child, which comes by here too, inherits what its parent saw.
	if os.Getenv("OUTSIDE") == "" {
		t.Setenv("OUTSIDE", outside)
	}
	if err := os.WriteFile("/run/outside", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("child", func(t *testing.T) {
		netnstest.Alone(t, func(t *testing.T) {
			if _, err := os.Stat("/run/outside"); err == nil {
				t.Error("/run is shared")
			}
			if net, err := os.Readlink(netns.Path("")); err != nil || net == os.Getenv("OUTSIDE") {
				t.Errorf("the namespace is shared: %s, %v", net, err)
			}
			if _, err := netns.Identify(netnstest.New(t)); err != nil {
				t.Error(err)
			}
		})
	})
}
