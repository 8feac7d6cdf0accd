package rehearse_test

import "weir/internal/rehearse"

var saboteurs = rehearse.Saboteurs{}
