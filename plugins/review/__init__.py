"""The plan review page: a FastAPI app that reads Delta without a JVM and writes nothing."""
