#include <fstream>

#include "manta/serve/serve_fixture_internal.h"

namespace manta::serve {

ToyPredictor ToyPredictor::from_checkpoint(const Checkpoint& checkpoint) {
  std::ifstream in(checkpoint.file("toy"));
  std::string text;
  in >> text;
  if (text == "broken") throw Error(ErrorKind::kCorrupt, "this model is broken");
  if (text == "dies") std::abort();
  return ToyPredictor(std::stod(text), checkpoint.path());
}

data::BatchPtr ToyPredictor::predict_features(const data::BatchPtr& features) const {
  auto column = features->GetColumnByName("x");
  arrow::DoubleBuilder builder;
  for (int64_t i = 0; i < column->length(); ++i) {
    if (column->IsNull(i)) {
      check(builder.AppendNull(), "append");
      continue;
    }
    double x = column->type_id() == arrow::Type::DOUBLE
                   ? static_cast<const arrow::DoubleArray&>(*column).Value(i)
                   : static_cast<double>(static_cast<const arrow::Int64Array&>(*column).Value(i));
    if (x == toy::kThrows) throw std::runtime_error("no such thing");
    if (x == toy::kAborts) std::abort();
    while (x == toy::kHangs || (x == toy::kWaits && !std::ifstream(folder_ + ".open"))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    check(builder.Append(factor_ * x), "append");
  }
  auto values = check(builder.Finish(), "finish");
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("predictions", arrow::float64())}),
                                  values->length(), {values});
}

HttpClient::Answer ask(const std::string& url, const std::string& body) {
  return HttpClient(url).post(body);
}

std::string body_of(double x) { return str("{\"x\":[", x, "]}"); }

Clients::Clients(std::string url, int clients, std::vector<double> factors)
    : url_(std::move(url)), factors_(std::move(factors)) {
  for (int i = 0; i < clients; ++i) {
    threads_.push_back(start_thread("a client of a test", [this, i] { run(i); }));
  }
}

void Clients::stop() {
  stopping_ = true;
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Clients::run(int client) {
  std::unique_ptr<HttpClient> connection;
  for (int i = 0; !stopping_; ++i) {
    double x = 1000 + client * 100'000 + i;
    std::string problem;
    try {
      if (!connection) connection = std::make_unique<HttpClient>(url_);
      auto answer = connection->post(body_of(x));
      bool ok =
          answer.status == 200 && std::any_of(factors_.begin(), factors_.end(), [&](double factor) {
            return Json::parse(answer.body)["predictions"][0] == factor * x;
          });
      if (!ok) problem = str(answer.status, " for ", x, ": ", answer.body);
    } catch (const std::exception& error) {
      problem = error.what();
      connection.reset();
    }
    if (problem.empty()) {
      ++right;
      continue;
    }
    ++wrong;
    std::lock_guard lock(mutex_);
    if (first_wrong_.empty()) first_wrong_ = problem;
  }
}

std::string Clients::first_wrong() {
  std::lock_guard lock(mutex_);
  return first_wrong_;
}

}  // namespace manta::serve
