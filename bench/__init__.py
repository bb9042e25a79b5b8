"""Measurements of speed and accuracy, as ratios within one run. Timing never decides a test."""
