"""The process that owns the queue, the device leases, the workers and the samplers of one data folder."""
