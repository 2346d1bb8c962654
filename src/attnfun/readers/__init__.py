"""READ: networks of other frameworks as graphs of operations, and graphs as targets."""
