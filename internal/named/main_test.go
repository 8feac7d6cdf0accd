package named

import (
	"testing"

	"weir/internal/netns/netnstest"
)

func TestMain(m *testing.M) { netnstest.Main(m) }
