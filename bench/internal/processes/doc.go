// Package processes measures how well several processes share limits: it starts real ones, gives each a transport of its own whose
// limits they share through a Redis or Valkey server, and has them all send to one simulated Discord on the loopback interface.
//
// The processes are this very program, started again with [ChildVariable] set. What they are to do and what came of it goes
// through their standard input and output, a JSON document in each line, see [command] and [message]:
//
//	parent          child
//	work       →            what to do, where Discord is, what is shared
//	           ←    ready   everything is opened
//	start      →            the moment from which all count
//	           ←    request one that has an outcome, and so on
//	           ←    done    no more will come
//	end        →            what still waits is given up
//	           ←    (exits)
//
// A child whose input ends without that ends at once, so that none outlives its parent. Where accidents happen, children are ended and
// killed; another one then starts in the place of each and does what is left of its work.
//
// Whoever limits requests is certain of little: it learns of a reset one way late and its next request arrives one way later.
// The ideal that efficiency is measured against is that of discordsim.Certain with the smallest round trip, for one client
// that does the work of all processes.
package processes
