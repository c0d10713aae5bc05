#include "http/answers.hpp"
