# SPDX-License-Identifier: MIT
"""The engines: everything that knows SQL or a foreign broker, and nothing else does.

An engine implements the port in ``redrive.broker.port``, and passes ``redrive.testing.conformance``.
"""
