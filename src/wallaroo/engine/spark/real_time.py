"""What Spark is told so that rows go through its stages one by one, as they come."""

REAL_TIME = {
    # Python operators are not on the list of what Spark has tried in this mode.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.sql.streaming.realTimeMode.minBatchDuration": "1000",
    # An epoch counts when we have committed it, which is before Spark does.
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # A row has all that a block, or several, have for a partition, and goes at once: the JVM writes to a worker while
    # it reads from it, through buffers in which nothing waits for more.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.python.udf.pipelined.enabled": "true",
    "spark.python.udf.pipelined.queueDepth": "1",
    "spark.sql.execution.python.udf.buffer.size": "64",
    "spark.buffer.size": "64",
    # What failed is computed again from the last commit, by all tasks; one alone cannot be.
    "spark.task.maxFailures": "1",
}
ON_ONE_MACHINE = {
    # Rows go from stage to stage in memory: Spark's own way listens on every interface of the machine.
    "spark.shuffle.manager.incremental": "wallaroo.OneProcessShuffle",
}
ON_A_CLUSTER = {
    # They go through Spark's own streaming shuffle, which would hold them back to send more at once.
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
}
