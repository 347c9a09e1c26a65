"""What runs on the executors of Spark, next to the storage."""
