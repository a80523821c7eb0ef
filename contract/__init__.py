"""What a bundle must say of itself: pure functions of its manifest, for whoever writes and whoever reads one."""
