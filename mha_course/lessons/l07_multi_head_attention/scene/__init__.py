"""All of multi-head attention in one interactive picture.

``widget.py`` sends the numbers of one pass, and ``plan.py`` where everything goes; ``static.py``
draws the same plan without a browser. ``watch.py`` finds the numbers in a learner's function.

In the browser, ``widget.js`` hears keys and pointer, and is played by the frame that all players
share: a stage, and the fraction of its motion that is done. ``stages.js`` says what a stage shows.
``picture.js`` draws in SVG what stands still, with the word that is followed (``follow.js``) and
what a number is made of (``numbers.js``, ``bars.js``). ``motion.js`` draws on a canvas over it what
moves, with the tools of ``brush.js``.
"""
