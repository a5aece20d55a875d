"""Measure tmh beside what else Python has for data that processes share.

``python -m tmh.bench`` runs it; ``python -m tmh.bench --help`` says what it measures and how.
"""
