"""Webhooks: ends of studies and of epochs, sent to receivers that the operator has configured.

The form is that of Standard Webhooks (https://www.standardwebhooks.com): a POST of JSON with the
headers `webhook-id`, `webhook-timestamp` and `webhook-signature`; libraries for receivers exist.

Theory of operation. The transaction that ends a study queues the end for each receiver
(`store.webhooks`). A thread per receiver claims the next end that is due, makes the message
(`messages`) and hands it to a process of its own (the program `__main__`), which opens
the connection and reads the answer. The process that serves devices opens no connection to a
receiver and reads no byte of one. It waits for the sending process no longer than the time limit,
and ends it then. A thread waits for nothing that a study or a device waits for.

An end is delivered if the receiver answers 2xx. All else is a failure: it is tried again after a
wait that doubles, with a random part, and given up after the receiver's time. Redirections are
failures. An end that was sent when a process died is sent again: receivers drop a known
`webhook-id`.
"""
