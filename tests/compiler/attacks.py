"""Ways for a kernel source to name a file of the host, each a template with PATH in it.

`READS` are those by which NVRTC really opens the file when nothing stops it; `TRIES` are those that
it does not understand today, and a later version might.
"""

from __future__ import annotations

from pathlib import Path

READS = {
    "plain": '#include "PATH"\n',
    "angle brackets": "#include <PATH>\n",
    "indented": '\t \v\f#  include"PATH"\n',
    "after a carriage return": '\r#include "PATH"\n',
    "carriage returns inside": '#\rinclude\r"PATH"\r\n',
    "digraph": '%:include "PATH"\n',
    "digraph with a space": '%: include "PATH"\n',
    "spliced digraph": '%\\\n:include "PATH"\n',
    "spliced word": '#inc\\\nlude "PATH"\n',
    "spliced after every letter": "\\\n".join("#include") + ' "PATH"\n',
    "spliced with a carriage return": '#inc\\\r\nlude "PATH"\n',
    "comment before": '/* x */ #include "PATH"\n',
    "comment inside": '#/* x */include/* y */"PATH"\n',
    "comment of two lines before": '/* x\n */ #include "PATH"\n',
    "comment of two lines inside": '#/* x\n */include/* y\n */"PATH"\n',
    "comment of two lines behind code": 'int a; /*\n*/ #include "PATH"\n',
    "comment of two lines and a splice": 'int a; /*\n*/ \\\n#include "PATH"\n',
    "comments of two lines": 'int a; /*\n*/ /*\n*/ %:/*\n*/include/*\n*/"PATH"\n',
    "after a directive with a comment": '#define A /*\n*/ 1\n#include "PATH"\n',
    "comment that a splice opens": '/\\\n* x */ #include "PATH"\n',
    "comment that a splice closes": '/* x *\\\n/ #include "PATH"\n',
    "text behind": '#include "PATH" and more\n',
    "text behind brackets": "#include <PATH> and more\n",
    "line comment behind": '#include "PATH" // x\n',
    "macro": '#define FILE "PATH"\n#include FILE\n',
    "macro in brackets": "#define FILE <PATH>\n#include FILE\n",
    "macro of a macro": '#define A B\n#define B "PATH"\n#include A\n',
    "macro with arguments": '#define FILE(x) x\n#include FILE("PATH")\n',
    "macro that makes a string": "#define TEXT(x) #x\n#include TEXT(PATH)\n",
    "include_next": '#include_next "PATH"\n',
    "through folders": '#include "..RELATIVE"\n',
    "in a live branch": '#if 1\n#include "PATH"\n#endif\n',
    "in an else": '#if 0\n#else\n#include "PATH"\n#endif\n',
    "after a digit separator": "int x = 1'0 + '/*';\n#include \"PATH\"\n/* ' */\n",
    "after an unpaired apostrophe": '#if 0\n \' /*\n#endif\n#include "PATH"\n/* */\n',
    "after an apostrophe in #warning": '#warning don\'t /*\n#include "PATH"\n/* */\n',
    "after an apostrophe in #pragma": '#pragma don\'t /*\n#include "PATH"\n/* */\n',
    "after an apostrophe in #define": '#define A \' /*\n#include "PATH"\n/* */\n',
    "after a skipped quote": '#if 0\n " /*\n#endif\n#include "PATH"\n/* */\n',
    "after a skipped string": '#if 0\n "/*" \n#endif\n#include "PATH"\n/* */\n',
    "after a string with an opener": 'const char* x = "/*";\n#include "PATH"\n/* */\n',
    "after an escaped quote": 'const char* x = "\\"/*";\n#include "PATH"\n/* */\n',
    "between names that end in R": '#define OR\nconst char* x = OR"x(";\n'
    '#include "PATH"\nconst char* y = ")x";\n',
    "between literals with a suffix": '#define R\nconst char* x = ""R"x(";\n'
    '#include "PATH"\nconst char* y = ")x";\n',
    "after a raw string": 'const char* x = R"x(/*)x";\n#include "PATH"\n/* */\n',
    "after a raw string with quotes": 'const char* x = R"(")";\n#include "PATH"\n//")"\n',
    "after a fence with a quote": 'const char* x = R"a"b( )a"b";\n#include "PATH"\n',
    "after a raw string in a directive": '#define A R"x(\n)x"\n#include "PATH"\n',
    "before a comment that ends": '#include "PATH" /*\n*/\n',
}

TRIES = {
    "from the root": '#include "ROOTLESS"\n',
    "trigraph": '??=include "PATH"\n',
    "trigraph splice": '#inc??/\nlude "PATH"\n',
    "universal character name": '#\\u0069nclude "PATH"\n',
    "splice with a space": '#inc\\ \nlude "PATH"\n',
    "import": '#import "PATH"\n',
    "embed": 'const char x[] = {\n#embed "PATH"\n};\n',
    "within a directive": '#define A /*\n*/ #include "PATH"\n',
    "within a condition": '#if 1 /*\n*/ #include "PATH"\n#endif\n',
    "within a null directive": '# /*\n*/ #include "PATH"\n',
    "in parentheses": '#include ("PATH")\n',
    "with a dollar": '#include$ "PATH"\n',
    "unknown directive": '#include_once "PATH"\n',
    "ident": '#ident "PATH"\n',
    "using": '#using "PATH"\n',
    "line": '#line 1 "PATH"\nerror;\n',
    "spliced line": '#li\\\nne 1 "PATH"\nerror;\n',
    "line marker": '# 1 "PATH" 1\nerror;\n',
    "digraph line marker": '%: 1 "PATH"\nerror;\n',
}

# Each asks whether a file exists, by an #error that says YES or NO.
_ANSWER = "\n#error YES\n#else\n#error NO\n#endif\n"
QUERIES = {
    "plain": '#if __has_include("PATH")' + _ANSWER,
    "angle brackets": "#if __has_include(<PATH>)" + _ANSWER,
    "defined": '#if defined(__has_include) && __has_include("PATH")' + _ANSWER,
    "elif": '#if 0\n#elif __has_include("PATH")' + _ANSWER,
    "include_next": '#if __has_include_next("PATH")' + _ANSWER,
    "embed": '#if __has_embed("PATH")' + _ANSWER,
    "spliced": '#if __has_\\\ninclude("PATH")' + _ANSWER,
    "comment inside": '#if __has_include/* x\n */("PATH")' + _ANSWER,
    "macro for the name": '#define HAS __has_include\n#if HAS("PATH")' + _ANSWER,
    "macro for the file": '#define FILE "PATH"\n#if __has_include(FILE)' + _ANSWER,
    "macro for all of it": '#define IS __has_include("PATH")\n#if IS' + _ANSWER,
    "pasted": '#define CAT(a, b) a##b\n#if CAT(__has_, include)("PATH")' + _ANSWER,
    "pasted by a digraph": '#define CAT(a, b) a%:%:b\n#if CAT(__has_, include)("PATH")' + _ANSWER,
    "pasted later": "#define CAT(a, b) a##b\n#define HAS CAT(__has_, include)\n"
    '#if HAS("PATH")' + _ANSWER,
    "pasted much later": "#define CAT(a, b) a##b\n#define HAS CAT(__has_, include)\n"
    '#define IS HAS("PATH")\n#define IT IS\n#if IT' + _ANSWER,
    "pasted in two steps": "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n"
    '#define TAIL include\n#if CAT(__has_, TAIL)("PATH")' + _ANSWER,
    "pasted without arguments": "#define P(x) __has_ ## x\n"
    '#define HAS P(include)\n#if 1 && HAS("PATH")' + _ANSWER,
    "pasted by a header": "#include <cuda/std/__cccl/preprocessor.h>\n"
    '#if _CCCL_PP_CAT(__has_, include)("PATH")' + _ANSWER,
    "pasted by a header later": "#include <cuda/std/__cccl/preprocessor.h>\n"
    '#define HAS _CCCL_PP_CAT(__has_, include)\n#if HAS("PATH")' + _ANSWER,
    "universal character name": '#if __has_\\u0069nclude("PATH")' + _ANSWER,
    "behind an apostrophe": '#define A \' /*\n#if __has_include("PATH")' + _ANSWER + "/* */",
    "pasted behind an apostrophe": "#define A ' /*\n#define CAT(a, b) a##b\n"
    '#if CAT(__has_, include)("PATH")' + _ANSWER + "/* */",
}


def aim(attack: str, target: Path) -> str:
    """The attack on one file."""
    relative = "/.." * 30 + str(target)
    text = attack.replace("RELATIVE", relative).replace("ROOTLESS", str(target).lstrip("/"))
    return text.replace("PATH", str(target))
