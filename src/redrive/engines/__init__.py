# SPDX-License-Identifier: MIT
"""The engines: the only code that knows SQL or a foreign broker.

An engine implements the port in ``redrive.broker.port``, and passes ``redrive.testing.conformance``.
"""
