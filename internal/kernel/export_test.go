package kernel

// Through has each change of the kernel carried out by w, which calls do, or not.
func (o *Options) Through(w func(what string, do func() error) error) { o.writes = w }
