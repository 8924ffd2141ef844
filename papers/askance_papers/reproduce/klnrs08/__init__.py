"""KLNRS08: Kasiviswanathan, Lee, Nissim, Raskhodnikova, Smith, What Can We Learn Privately?"""
