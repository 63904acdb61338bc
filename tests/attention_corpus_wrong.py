WRONG = []
