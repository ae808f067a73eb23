#include "http_post.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <regex>
#include <stdexcept>

std::string http_post(const std::string& url, const std::string& body) {
  namespace asio = boost::asio;
  namespace beast = boost::beast;
  namespace http = beast::http;
  std::smatch part;
  if (!std::regex_match(url, part, std::regex("http://([^:/]+):([0-9]+)(/.*)"))) {
    throw std::runtime_error("'" + url + "' is not like http://host:port/path");
  }
  asio::io_context context;
  beast::tcp_stream stream(context);
  http::request<http::string_body> request(http::verb::post, part[3].str(), 11, body);
  request.set(http::field::host, part[1].str() + ":" + part[2].str());
  request.set(http::field::content_type, "application/json");
  request.prepare_payload();
  http::response<http::string_body> response;
  beast::flat_buffer buffer;
  beast::error_code failure = asio::error::timed_out;
  stream.expires_after(std::chrono::seconds(10));
  stream.async_connect(asio::ip::tcp::resolver(context).resolve(part[1].str(), part[2].str()),
                       [&](beast::error_code error, const auto&) {
                         if ((failure = error)) return;
                         http::async_write(stream, request, [&](beast::error_code error, size_t) {
                           if ((failure = error)) return;
                           http::async_read(
                               stream, buffer, response,
                               [&](beast::error_code error, size_t) { failure = error; });
                         });
                       });
  context.run();
  if (failure) throw std::runtime_error(url + ": " + failure.message());
  if (response.result() != http::status::ok) {
    throw std::runtime_error(url + ": status " + std::to_string(response.result_int()) + ": " +
                             response.body());
  }
  return response.body();
}
