// Package riverlimit makes jobs of River (github.com/riverqueue/river, on PostgreSQL) wait in the database if they have
// to wait long for a limit of Discord. It also tells River after which errors a job should be tried again.
//
//	plugin, err := riverlimit.New()
//	…
//	queue, err := river.NewClient(driver, &river.Config{
//		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
//		Workers:              workers,
//		Plugins:              []rivertype.Plugin{plugin}, // not Middleware: the plugin is also a hook
//		RescueStuckJobsAfter: 2 * time.Minute,            // while Discord still knows the nonces
//	})
//
// A worker sends its requests with any client whose transport is an *httpclient.Transport, such as a *rest.Client. The
// worker passes its own context to the client. That context bounds the wait in the process ([jobs.WithMaxWait], 5 s by
// default). Only the transport acquires permits from the bucket manager, once for each request; the plugin acquires
// none.
//
//	func (w *Sender) Work(ctx context.Context, job *river.Job[Message]) error {
//		message := jobs.WithNonce(map[string]string{"content": job.Args.Content}, riverlimit.Nonce(job.JobRow))
//		return w.discord.DoJSON(ctx, "POST", "/channels/"+job.Args.Channel+"/messages", message, nil)
//	}
//
// A request that would have to wait longer than that bound is not sent. Its job is snoozed until the request can be
// sent (river.JobSnooze). The snooze uses up no attempt. Package jobs describes when a request can be sent and how
// other errors are treated. A job whose arguments cannot be decoded is cancelled. If the worker returns river.JobSnooze
// or river.JobCancel, River gets that error.
package riverlimit
