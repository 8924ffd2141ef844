"""Version 1 of the wire (stubs made by grpcio-tools and mypy-protobuf; see CONTRIBUTING.md)."""
