#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "manta/base/eventually_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/io/http_client_internal.h"
#include "manta/predict/predict_fixture_internal.h"
#include "manta/serve/serve.h"

namespace manta::serve {

/// For tests: predictions are factor * x, of a column of numbers; the checkpoint's file "toy" holds
/// the factor, or "broken" for a model that cannot be loaded. Some values of x do more: see toy.
class ToyPredictor final : public Predictor {
 public:
  static ToyPredictor from_checkpoint(const Checkpoint& checkpoint);

 protected:
  data::BatchPtr predict_features(const data::BatchPtr& features) const override;

 private:
  ToyPredictor(double factor, std::string folder)
      : Predictor({}, {"x"}), factor_(factor), folder_(std::move(folder)) {}

  double factor_;
  std::string folder_;
};

namespace toy {
inline constexpr double kThrows = -1;  ///< The predictor throws.
inline constexpr double kAborts = -2;  ///< The replica dies.
inline constexpr double kWaits = -3;   ///< Waits until there is a file "<checkpoint>.open".
inline constexpr double kHangs = -4;   ///< Waits for ever.
}  // namespace toy

/// Makes one request; an exception fails the test. Returns status and body.
HttpClient::Answer ask(const std::string& url, const std::string& body);
/// {"x":[value]}
std::string body_of(double x);

/// Clients that send one request after the other until they are destroyed, each over its own
/// connection, and count the answers. An answer is right if it is factor * x for one of the
/// factors.
class Clients {
 public:
  Clients(std::string url, int clients, std::vector<double> factors);
  ~Clients() { stop(); }
  void stop();

  std::atomic<int64_t> right{0}, wrong{0};
  std::string first_wrong();

 private:
  void run(int client);

  const std::string url_;
  const std::vector<double> factors_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::string first_wrong_;
  std::vector<std::thread> threads_;
};

}  // namespace manta::serve
