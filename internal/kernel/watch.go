package kernel

// watcher is filled in by Watch.
type watcher struct{}

func (w *watcher) add(*space) {}
func (w *watcher) stop()      {}
