package plan

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// String is the plan as people read it:
//
//	~ wan-fiber  route default  via 198.51.100.1 -> 198.51.100.254
//	! main       nft table weir  rule "web" removed by hand, will come back
//	Plan: 0 to add, 2 to change, 0 to remove.
//
// "+" adds, "~" changes, "-" removes; "!" mends what somebody else changed.
func (p Plan) String() string {
	var b strings.Builder
	nsWidth, nameWidth := 0, 0
	for _, s := range p.Steps {
		nsWidth = max(nsWidth, utf8.RuneCountInString(place(s.NS)))
		if n := utf8.RuneCountInString(s.Object + " " + s.Name); n <= 32 {
			nameWidth = max(nameWidth, n)
		}
	}
	var count = map[Op]int{}
	for _, s := range p.Steps {
		count[s.Op]++
		line := fmt.Sprintf("  %s %-*s  %-*s  %s", s.mark(), nsWidth, place(s.NS), nameWidth, s.Object+" "+s.Name, s.text())
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		for _, d := range s.Detail {
			b.WriteString(strings.TrimRight("        "+d, " ") + "\n")
		}
	}
	list := func(lead string, lines []string) {
		for _, l := range lines {
			b.WriteString("  " + lead + l + "\n")
		}
	}
	list("", p.Waiting)
	list("note: ", p.Notes)
	list("refused: ", p.Refused)
	switch {
	case len(p.Refused) > 0:
		fmt.Fprintf(&b, "Plan: can't be carried out here; nothing will be changed.\n")
	case len(p.Steps) == 0 && len(p.Waiting) > 0:
		b.WriteString("Nothing to change: the kernel holds all that is possible now.\n")
	case len(p.Steps) == 0:
		b.WriteString("Nothing to change: the kernel holds what the file says.\n")
	default:
		fmt.Fprintf(&b, "Plan: %d to add, %d to change, %d to remove.\n", count[Add], count[Change], count[Remove])
	}
	return b.String()
}

func (s Step) mark() string {
	if s.Drift {
		return "!"
	}
	return map[Op]string{Add: "+", Change: "~", Remove: "-"}[s.Op]
}

func (s Step) text() string {
	t := s.New
	switch {
	case s.Op == Remove:
		t = s.Old
	case s.Old != "" && s.New != "":
		t = s.Old + " -> " + s.New
		// "via A dev x -> via B dev x" says its point sooner without what is equal,
		// if it is a word that differs.
		if o, n, head := trimCommon(s.Old, s.New); head != "" && !strings.Contains(o+n, " ") {
			t = head + o + " -> " + n
		}
	}
	if s.Why != "" {
		if t == "" {
			return s.Why
		}
		t += "   (" + s.Why + ")"
	}
	return t
}

// trimCommon takes the words off that a and b begin and end with alike.
func trimCommon(a, b string) (x, y, head string) {
	wa, wb := strings.Fields(a), strings.Fields(b)
	i := 0
	for i < len(wa)-1 && i < len(wb)-1 && wa[i] == wb[i] {
		i++
	}
	j, k := len(wa), len(wb)
	for j > i+1 && k > i+1 && wa[j-1] == wb[k-1] {
		j, k = j-1, k-1
	}
	if i > 0 {
		head = strings.Join(wa[:i], " ") + " "
	}
	return strings.Join(wa[i:j], " "), strings.Join(wb[i:k], " "), head
}

// String is the step on one line.
func (s Step) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", s.verb(), s.Object, strings.TrimSpace(s.Name+" "+s.text()), "in "+place(s.NS)))
}

func (s Step) verb() string {
	return string(s.Op)
}
