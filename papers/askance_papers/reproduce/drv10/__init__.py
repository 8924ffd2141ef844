"""DRV10: Dwork, Rothblum, Vadhan, Boosting and Differential Privacy."""
