"""The commands of ``cautious``: arguments in, calls of the library, files and text out.

solving, learning, sweeping, model_files, built_in, studio   the commands
problems, risk_spec, policies                      what PROBLEM, --risk and --policy mean
shared, progress, completion                       options, exit codes and output; progress bars; the Tab key
"""
