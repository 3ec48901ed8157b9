"""Orders by customer, counted by a Kafka consumer group; customers are as unequal as words.

The example of docs/engine-kafka.md, and the job of the tests on a real broker.
"""
