# SPDX-License-Identifier: Apache-2.0
esscher info
esscher info --json | head -5
esscher info --csv | head -1
