package rehearse

import "fmt"

// Moment is when a saboteur may strike.
type Moment string

// The moments.
const (
	Up       Moment = "up"       // the house is up, before any drill
	Cut      Moment = "cut"      // a line has just been lost
	Restored Moment = "restored" // and has just been given back
	Ended    Moment = "ended"    // a drill has ended the daemon
)

// Saboteur breaks something in a house on purpose: what it does at which moment.
// The tests hold one for each drill, which it must turn red.
type Saboteur map[Moment]func(b *Bench) error

// Saboteurs are the tests' saboteurs, by name. weir itself has none.
type Saboteurs map[string]Saboteur

// happens lets saboteurs strike.
func (b *Bench) happens(m Moment) error {
	if m == Cut {
		b.measure.begins(b)
	}
	for _, s := range b.saboteurs {
		if f := s[m]; f != nil {
			if err := f(b); err != nil {
				return fmt.Errorf("sabotage at the moment %q: %w", m, err)
			}
		}
	}
	return nil
}
