#pragma once

#include <string>

/// The body of a local server's answer to a POST. Throws std::runtime_error if it does not answer
/// within 10 seconds, or with a status other than 200.
std::string http_post(const std::string& url, const std::string& body);
