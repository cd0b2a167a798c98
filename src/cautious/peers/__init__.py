"""Other people's solvers on our problems: what each can take, how to ask it, and our judgement of its answer."""
