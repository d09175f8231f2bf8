"""Metadata from one media server to another that is often down, or has not scanned the file yet."""
