#pragma once

#include <string>

/// What a server on this machine answers to a POST: the body. Throws std::runtime_error if it does
/// not answer within 10 seconds, or with a status other than 200.
std::string http_post(const std::string& url, const std::string& body);
