// Package worker runs a service as a child: the same binary run again, with one
// end of a unix socket pair. Its sockets are opened by the parent and handed
// over; what comes back is plain values. The parent parses nothing foreign, and
// a child that panics costs a restart and no packet.
//
//	parent                               child (weir worker KIND NAME LEVEL)
//	Child --fork, exec------------------> Main --> Kind.Run(ctx, Conn, log)
//	Setup --Config and sockets----------> Conn.Recv
//	Received <--Report------------------- Conn.Send
//	slog <--JSON lines on stderr--------- log, and a panic's trace
//
// A message is a frame: the JSON's length and the number of files with it, both
// 32 bits in network order, then the JSON. The files ride on the header by
// SCM_RIGHTS (unix(7)). An empty frame is a beat: the parent sends one now and
// then, and a child that is in Recv sends one back. A child that does not is
// hanging, and is ended and started again.
//
// The trap: PR_SET_PDEATHSIG follows the parent's *thread* (prctl(2)), and Go
// ends threads (any goroutine that returns while locked to one, as those that
// enter a network namespace do). Each Child therefore forks from a thread that
// it keeps until the child is gone.
package worker
