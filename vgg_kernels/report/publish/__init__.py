"""How does it leave this repository? Notebooks executed, the site, the page, the README, exported kernels.

``notebooks`` executes and tidies, ``site`` renders them, ``html`` the workload page; ``readme`` fills the README;
``bundle`` and ``export`` write one file that KernelBench takes.
"""
