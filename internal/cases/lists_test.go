package cases

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
)

// listServer is a web server of the internet that hands out block lists.
type listServer struct {
	mu    sync.Mutex
	text  string
	asked []string      // what each request was answered with
	hang  chan struct{} // not nil: the answer begins, and goes on when it is closed
	wrong http.HandlerFunc
}

func (s *listServer) set(f func(*listServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *listServer) answers() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, " ")
}

func (s *listServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	text, wrong, hang := s.text, s.wrong, s.hang
	tag := fmt.Sprintf(`"%d"`, len(text))
	said := "200"
	switch {
	case r.URL.Path == "/moved":
		said = "302"
	case wrong != nil:
		said = "wrong"
	case r.Header.Get("If-None-Match") == tag:
		said = "304"
	}
	s.asked = append(s.asked, said)
	s.mu.Unlock()
	switch said {
	case "302":
		http.Redirect(w, r, "/list", http.StatusFound)
	case "wrong":
		wrong(w, r)
	case "304":
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("ETag", tag)
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write([]byte(text))
			_ = z.Close()
			w.Header().Set("Content-Encoding", "gzip")
			text = b.String()
		}
		if hang != nil {
			w.(http.Flusher).Flush()
			<-hang
		}
		_, _ = w.Write([]byte(text))
	}
}

// listAt has a server of lists on the internet of an ISP.
func (h *house) listAt(isp *lab.ISP) *listServer {
	h.Helper()
	var ln net.Listener
	h.must(isp.Inet.Do(func() (err error) {
		ln, err = net.Listen("tcp", ":8080")
		return err
	}))
	s := &listServer{}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(ln) }()
	h.Cleanup(func() { _ = srv.Close() })
	return s
}

// TestBlockLists: names of lists are refused to the LANs that the lists are for,
// by both engines. Lists come from a file and over the line in use; what is kept
// of them outlives a boot without internet, and whatever a server sends instead.
func TestBlockLists(t *testing.T) {
	t.Parallel()
	t.Run("forward", func(t *testing.T) { blockLists(t, "forward") })
	t.Run("bind", func(t *testing.T) { blockLists(t, "bind") })
}

func blockLists(t *testing.T, engine string) {
	in(t, func(h *house) {
		h.need("nft", "dig", "named")
		isp := h.connect(fiberLine())
		web := h.listAt(isp)
		web.text = "# a list\n127.0.0.1 localhost\n0.0.0.0 ads.example\n0.0.0.0 tracker.example nas.local\n||deep.example^\n@@||good.deep.example^\n||allowed.example^\n"
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.must(os.MkdirAll(h.dir+"/state", 0o700))
		h.must(os.WriteFile(h.dir+"/state/root-anchors", []byte(h.RootAnchors()), 0o600))
		h.must(os.WriteFile(h.dir+"/mine", []byte("mine.example\n*.all.example\n"), 0o644))
		text := unsaidDNS + `
lan "guest" {
  interface = "eth7"
  address   = "10.0.9.1/24"
}
dns {
  engine = "` + engine + `"
  block_list "ads" {
    source  = ["http://lists.example.org:8080/moved"]
    refresh = "1h"
    allow   = "allowed.example"
    lan     = lan.home
  }
  block_list "mine" {
    source = "` + h.dir + `/mine"
  }
}
`
		h.start(text)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		ask := func(name string) string { return h.dig(pc.Host, "@172.31.0.1 "+name) }
		blocked := func(name string) bool { return strings.Contains(ask(name), "status: NXDOMAIN") }
		passes := func(name string) bool { return strings.Contains(ask(name), "192.0.2.80") }
		h.until("the list of the web", 30*time.Second, func() bool { return blocked("ads.example") })
		h.until("the list of the file", 10*time.Second, func() bool { return blocked("mine.example") })
		for _, n := range []string{"tracker.example", "deep.example", "a.b.deep.example", "x.all.example", "all.example"} {
			if !blocked(n) {
				h.Errorf("%s is not blocked:\n%s", n, ask(n))
			}
		}
		for _, n := range []string{"www.ads.example", "good.deep.example", "x.good.deep.example", "allowed.example", "www.allowed.example", "www.mine.example", "www.example.com"} {
			if !passes(n) {
				h.Errorf("%s is blocked:\n%s", n, ask(n))
			}
		}
		if got := h.dig(pc.Host, "@172.31.0.1 +short nas.local"); got != "172.31.0.23" {
			h.Errorf("a name of the house that a list has: %q", got)
		}
		for _, q := range []string{"ads.example AAAA", "ads.example HTTPS", "ads.example TXT +tcp"} {
			if got := ask(q); !strings.Contains(got, "status: NXDOMAIN") {
				h.Errorf("%s: %s", q, got)
			}
		}
		if got := ask("ads.example +dnssec"); engine == "forward" && !strings.Contains(got, "EDE: 15 (Blocked): (block_list ads)") {
			h.Errorf("no reason comes with it:\n%s", got)
		}
		// The gateway itself, whose names the lists' servers have, meets none; nor does a LAN that the list is not for.
		if got := h.dig(h.gw, "@127.0.0.1 +short ads.example"); got != "192.0.2.80" {
			h.Errorf("the gateway asks for ads.example: %q", got)
		}
		h.sh(h.gw, "ip link add eth7 type veth peer name eth7far; ip link set eth7 up; ip link set eth7far up")
		h.until("a guest is answered", 20*time.Second, func() bool {
			return h.dig(h.gw, "-b 10.0.9.1 @10.0.9.1 +short ads.example") == "192.0.2.80"
		})
		if got := h.dig(h.gw, "-b 10.0.9.1 @10.0.9.1 mine.example"); !strings.Contains(got, "status: NXDOMAIN") {
			h.Errorf("a guest asks for what everybody's list has:\n%s", got)
		}
		if got := web.answers(); got != "302 200" {
			h.Errorf("the server was asked for %q", got)
		}
		if l := h.blockList("ads"); l.Names != 4 || l.Skipped != 2 || l.Error != "" || l.Updated.IsZero() || strings.Join(l.LANs, " ") != "home" {
			h.Errorf("status: %+v", l)
		}

		// A file that is edited is read within moments; gone, it is complained of and stays in force.
		h.must(os.WriteFile(h.dir+"/mine", []byte("mine.example\nlater.example\n"), 0o644))
		h.until("the edited file", 20*time.Second, func() bool { return blocked("later.example") && passes("x.all.example") })
		h.must(os.Remove(h.dir + "/mine"))
		h.until("the missing file is told", 20*time.Second, func() bool { return h.blockList("mine").Error != "" })
		if !blocked("later.example") {
			h.Error("what was had of a missing file is not blocked any more")
		}

		// What a server sends instead of a list changes nothing, and is told.
		for what, wrong := range map[string]http.HandlerFunc{
			"404 Not Found": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
			"web page": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("<!doctype html>\nlogin.example\n"))
			},
			"no name": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(bytes.Repeat([]byte{0, 0xff, '\n', 7}, 10000))
			},
			"more than 64 MB": func(w http.ResponseWriter, _ *http.Request) { huge(w) },
			"redirections":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) },
			"unexpected EOF": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "900")
				_, _ = w.Write([]byte("half.example\n"))
			},
			"gzip: invalid header": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write([]byte("no gzip at all"))
			},
		} {
			web.set(func(s *listServer) { s.wrong, s.asked = wrong, nil })
			h.must(os.RemoveAll(h.dir + "/state/named/lists/" + h.keptSource()))
			h.end(syscall.SIGTERM)
			h.again()
			h.answering()
			h.until("it is told: "+what, 60*time.Second, func() bool { return strings.Contains(h.blockList("ads").Error, what) })
			if !blocked("ads.example") {
				h.Errorf("after %s ads.example is not blocked", what)
			}
		}
		// And once it is right again, so is the list.
		web.set(func(s *listServer) { s.wrong, s.text = nil, s.text+"0.0.0.0 new.example\n" })
		h.until("the list is renewed", 60*time.Second, func() bool { return blocked("new.example") && h.blockList("ads").Error == "" })

		// Without internet, from the start.
		h.end(syscall.SIGKILL)
		h.must(isp.Dark(true))
		h.again()
		h.until("the kept list, without internet", 20*time.Second, func() bool { return blocked("new.example") })
		h.must(isp.Dark(false))
		h.strays(isp)
	})
}

// answering waits until the daemon answers.
func (h *house) answering() {
	h.Helper()
	h.until("weir answers", 20*time.Second, func() bool { _, err := h.tell("status"); return err == nil })
}

// keptSource is the note of the one source that was fetched.
func (h *house) keptSource() string {
	return strings.TrimSpace(h.sh(h.gw, "cd "+h.dir+"/state/named/lists && ls src-*.json || echo none"))
}

// huge is a list that does not end, but for the reader's patience.
func huge(w http.ResponseWriter) {
	line := bytes.Repeat([]byte("0.0.0.0 a.very.long.list.example\n"), 4000)
	for range 600 {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// blockList is what the status says of a list.
func (h *house) blockList(name string) api.BlockList {
	for _, l := range h.status().BlockLists {
		if l.Name == name {
			return l
		}
	}
	return api.BlockList{}
}
