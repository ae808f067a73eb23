// expect: a predictor is made in other processes, too, where what a lambda captures
// expect: must take `const Checkpoint&` and return a class derived from Predictor
// expect: must take `const Checkpoint&` and return a class derived from Predictor
// expect: a predictor is made by its class, as in from_checkpoint<XGBoostPredictor>
// expect: expected a class derived from Predictor with a `static T from_checkpoint
#include <manta/predict/batch_predictor.h>

struct Mine : manta::Predictor {
  Mine();
  manta::data::BatchPtr predict_features(const manta::data::BatchPtr& features) const override;
};
Mine make(const manta::Checkpoint&);
int not_one(const manta::Checkpoint&);
Mine of_text(const std::string&);

void f(const manta::Checkpoint& checkpoint, int epochs) {
  using manta::BatchPredictor;
  BatchPredictor::from_checkpoint(checkpoint, make);
  BatchPredictor::from_checkpoint(checkpoint, [epochs](const manta::Checkpoint& from) {
    (void)epochs;
    return make(from);
  });
  BatchPredictor::from_checkpoint(checkpoint, not_one);
  BatchPredictor::from_checkpoint(checkpoint, of_text);
  BatchPredictor::from_checkpoint(checkpoint, 5);
  BatchPredictor::from_checkpoint<Mine>(checkpoint);
}
