// A model of XGBoost behind Beast in one thread, with nothing in between: the lowest possible cost
// of serving without batches. A server for serve_load.py.
//   bare_serve <folder>
// The folder is one that `workflow_bench make-served` writes. Prints {"url": ...}, then serves on
// loopback until its stdin ends. A request is {"column": [value], ...} for one row.

#include <rapidjson/reader.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "manta/xgboost/c_api_internal.h"

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

namespace {

void check(int status) {
  if (status != 0) throw std::runtime_error(XGBGetLastError());
}

/// Predicts one row at a time. The row, its description and the proxy DMatrix are always the same.
class Model {
 public:
  explicit Model(const std::string& folder) {
    std::ifstream file(folder + "/scale.json");
    auto scale = nlohmann::json::parse(file);
    scale.at("columns").get_to(columns_);
    scale.at("mean").get_to(mean_);
    scale.at("std").get_to(std_);
    row_.resize(columns_.size());
    check(XGBoosterCreate(nullptr, 0, &booster_));
    std::ifstream model(folder + "/model.ubj", std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(model), {});
    check(XGBoosterLoadModelFromBuffer(booster_, bytes.data(), bytes.size()));
    check(XGBoosterSetParam(booster_, "nthread", "1"));
    check(XGProxyDMatrixCreate(&proxy_));
    nlohmann::json array = {{"data", {reinterpret_cast<uintptr_t>(row_.data()), true}},
                            {"shape", {1, row_.size()}},
                            {"typestr", "<f4"},
                            {"version", 3}};
    array_ = array.dump();
  }
  ~Model() {
    XGDMatrixFree(proxy_);
    XGBoosterFree(booster_);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const std::vector<std::string>& columns() const { return columns_; }
  void set(size_t column, double value) {
    row_[column] = static_cast<float>((value - mean_[column]) / std_[column]);
  }
  float predict() {
    constexpr const char* kConfig =
        R"({"type": 0, "iteration_begin": 0, "iteration_end": 0, "strict_shape": false, )"
        R"("cache_id": 0, "missing": NaN})";
    const uint64_t* shape = nullptr;
    uint64_t dimensions = 0;
    const float* result = nullptr;
    check(XGBoosterPredictFromDense(booster_, array_.c_str(), kConfig, proxy_, &shape, &dimensions,
                                    &result));
    return result[0];
  }

 private:
  std::vector<std::string> columns_;
  std::vector<double> mean_, std_;
  std::vector<float> row_;
  std::string array_;
  void* booster_ = nullptr;
  void* proxy_ = nullptr;
};

/// Fills the model's row from {"column": [value], ...}. Clients send the columns in the order of
/// the model, so the reader tries the next column first.
class RowReader : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, RowReader> {
 public:
  explicit RowReader(Model& model) : model_(model) {}

  bool complete() const { return seen_ == model_.columns().size(); }
  bool Default() { return false; }
  bool StartObject() { return true; }
  bool EndObject(rapidjson::SizeType) { return true; }
  bool StartArray() { return true; }
  bool EndArray(rapidjson::SizeType size) { return size == 1; }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    const auto& columns = model_.columns();
    std::string_view name(text, size);
    column_ = seen_;
    if (column_ >= columns.size() || columns[column_] != name) {
      column_ =
          static_cast<size_t>(std::find(columns.begin(), columns.end(), name) - columns.begin());
    }
    return column_ < columns.size();
  }
  bool Double(double value) {
    model_.set(column_, value);
    ++seen_;
    return true;
  }
  bool Int(int value) { return Double(value); }
  bool Uint(unsigned value) { return Double(value); }
  bool Int64(int64_t value) { return Double(static_cast<double>(value)); }
  bool Uint64(uint64_t value) { return Double(static_cast<double>(value)); }

 private:
  Model& model_;
  size_t column_ = 0, seen_ = 0;
};

std::string answer_of(Model& model, const std::string& body) {
  RowReader row(model);
  rapidjson::Reader reader;
  rapidjson::StringStream stream(body.c_str());
  reader.Parse<rapidjson::kParseFullPrecisionFlag>(stream, row);
  if (reader.HasParseError() || !row.complete()) throw std::runtime_error("not a row");
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, model.predict()).ptr;
  return "{\"predictions\":[" + std::string(text, end) + "]}";
}

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Model& model) : socket_(std::move(socket)), model_(model) {
    socket_.set_option(tcp::no_delay(true));
  }

  void read() {
    request_ = {};
    http::async_read(socket_, buffer_, request_,
                     [self = shared_from_this()](beast::error_code error, size_t) {
                       if (!error) self->answer();
                     });
  }

 private:
  void answer() {
    response_ = {};
    response_.version(request_.version());
    response_.keep_alive(request_.keep_alive());
    try {
      response_.body() = answer_of(model_, request_.body());
      response_.set(http::field::content_type, "application/json");
    } catch (const std::exception& error) {
      response_.result(http::status::bad_request);
      response_.body() = error.what();
    }
    response_.prepare_payload();
    http::async_write(socket_, response_,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        if (!error && self->response_.keep_alive()) self->read();
                      });
  }

  tcp::socket socket_;
  Model& model_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response<http::string_body> response_;
};

void accept(tcp::acceptor& acceptor, Model& model) {
  acceptor.async_accept([&](beast::error_code error, tcp::socket socket) {
    if (error) return;
    std::make_shared<Connection>(std::move(socket), model)->read();
    accept(acceptor, model);
  });
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Serves a model of XGBoost in one thread, until standard input ends");
  std::string folder;
  app.add_option("folder", folder, "that `workflow_bench make-served` wrote")->required();
  CLI11_PARSE(app, argc, argv);
  Model model(folder);
  asio::io_context io(1);
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  accept(acceptor, model);
  asio::posix::stream_descriptor input(io, 0);
  char byte;
  input.async_read_some(asio::buffer(&byte, 1), [&](beast::error_code, size_t) { io.stop(); });
  std::cout << nlohmann::json{{"url", "http://127.0.0.1:" +
                                          std::to_string(acceptor.local_endpoint().port()) + "/"}}
            << std::endl;
  io.run();
} catch (const std::exception& error) {
  std::cerr << "bare_serve: " << error.what() << std::endl;
  return 1;
}
