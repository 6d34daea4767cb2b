"""What the shop sells."""

PRICES = {"apple": 2, "bread": 5, "cheese": 11}


class NotForPickle:
    def __reduce__(self):
        raise TypeError("not for pickle")


class Purchase(NotForPickle):
    def __init__(self, customer, item):
        self.customer = customer
        self.item = item

    def __repr__(self):
        return f"{self.customer} buys {self.item}"
