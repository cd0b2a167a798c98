"""Problem files: a model, its risks and the caution, in TOML.

    caution = 10.0
    horizon = 24                          # steps; or "average", "total"; without it discounted for ever

    [model]
    world = "maze"                        # or: file = "model.tra", gym = "FrozenLake-v1", transitions = "log.csv"
    parameters = { p = 0.9 }              # of the world; optional
    title = "Our maze"                    # and story, step, reward_unit: words of reports, optional

    [[risk]]                              # [risk] for a single one
    kind = "SafeSet"
    states = [0, 1, 2]                    # or names: ["start", "left"]
    slack = 0.1
    weight = 2.0                          # optional

Names of files are relative to the problem file. Whatever is not understood is refused by name.
"""
