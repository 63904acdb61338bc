"""All of multi-head attention in one interactive picture.

``widget.py`` sends the numbers of one pass, and ``plan.py`` where everything goes; ``static.py``
draws the same plan without a browser. ``watch.py`` finds the numbers in a learner's function.

In the browser, ``widget.js`` handles keys and pointer; the frame that all players share drives it
with a stage and the fraction of its motion that is done. ``stages.js`` says what a stage shows.
``picture.js`` draws the still parts in SVG, with the followed word (``follow.js``) and how a number
is computed (``numbers.js``, ``bars.js``). ``motion.js`` draws the moving parts on a canvas over it,
with the tools of ``brush.js``.
"""
