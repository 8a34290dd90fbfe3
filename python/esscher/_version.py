# SPDX-License-Identifier: Apache-2.0
"""The version of this package, which the library must have, too."""

version = "0.3.0"
