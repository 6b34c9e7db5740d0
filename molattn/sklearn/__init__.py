"""scikit-learn estimators on lists of SMILES, for `cross_val_score`, `GridSearchCV`, `Pipeline` and so on.

    from molattn import MolAttentionRegressor
    from sklearn.model_selection import cross_val_score

    cross_val_score(MolAttentionRegressor(epochs=20), smiles, y, cv=5)

X is n SMILES: a list, an array, a Series, or one column of a table, (n, 1). With extra descriptors, X is a table:
`MolAttentionRegressor(smiles_column="smiles", descriptor_columns=["logp", "mw"]).fit(frame, y)`. Invalid input raises
ValueError, as in scikit-learn.
"""

from molattn.sklearn.estimators import MolAttentionClassifier, MolAttentionRegressor

__all__ = ["MolAttentionClassifier", "MolAttentionRegressor"]
