"""scikit-learn's estimators on lists of SMILES, for `cross_val_score`, `GridSearchCV`, `Pipeline` and the rest of it.

    from molattn import MolAttentionRegressor
    from sklearn.model_selection import cross_val_score

    cross_val_score(MolAttentionRegressor(epochs=20), smiles, y, cv=5)

X is n SMILES: a list, an array, a Series, or one column of a table, (n, 1). With numbers beside the molecules it is a
table: `MolAttentionRegressor(smiles_column="smiles", descriptor_columns=["logp", "mw"]).fit(frame, y)`. What
scikit-learn's users expect to be wrong input is a ValueError here.
"""

from molattn.sklearn.classifier import MolAttentionClassifier
from molattn.sklearn.regressor import MolAttentionRegressor

__all__ = ["MolAttentionClassifier", "MolAttentionRegressor"]
