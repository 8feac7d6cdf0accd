package config

// check makes the checks that take two values to see.
func (c *checker) check(h *house) {}
