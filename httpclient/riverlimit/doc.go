// Package riverlimit lets jobs of River (github.com/riverqueue/river, on PostgreSQL) wait in the database where they would wait long for a
// limit of Discord, and tells River which errors are worth another attempt.
//
//	plugin, err := riverlimit.New()
//	…
//	queue, err := river.NewClient(driver, &river.Config{
//		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
//		Workers:              workers,
//		Plugins:              []rivertype.Plugin{plugin}, // not Middleware: it is a hook, too
//		RescueStuckJobsAfter: 2 * time.Minute,            // while Discord remembers nonces
//	})
//
// A worker sends with any client whose transport is an *httpclient.Transport, such as a *rest.Client, and passes it the context that it was
// given. That context bounds the wait in the process ([jobs.WithMaxWait], 5 s by default). The transport acquires, once for each request; the
// plugin acquires nothing.
//
//	func (w *Sender) Work(ctx context.Context, job *river.Job[Message]) error {
//		message := jobs.WithNonce(map[string]string{"content": job.Args.Content}, riverlimit.Nonce(job.JobRow))
//		return w.discord.DoJSON(ctx, "POST", "/channels/"+job.Args.Channel+"/messages", message, nil)
//	}
//
// A request that would wait longer is not sent. Its job is snoozed until it can be, which uses up no attempt (river.JobSnooze). Package jobs
// says when that is, and what becomes of other errors. A job whose arguments cannot be decoded is cancelled. A worker that returns
// river.JobSnooze or river.JobCancel gets what it asks for.
package riverlimit
