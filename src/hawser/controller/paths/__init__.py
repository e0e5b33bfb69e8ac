"""Path configuration (PC): paths that are chosen by what gateways measure, and why."""
